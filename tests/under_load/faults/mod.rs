//! Faults of daemons, of the machine and of the network between them. Each takes little of the machine.

mod chaos;
mod slow_link;
