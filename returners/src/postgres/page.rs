//! Reads a page of rows, bounded in number and size.

use tokio_postgres::{Client, Row};

use super::Failure;
use crate::cached_job::{PAGE_BYTES, PAGE_ROWS};

/// Returns the rows of the query `rows` with these two parameters, in the order `order` that the query has too: at most
/// [`PAGE_ROWS`], and none after those whose column `size` comes to [`PAGE_BYTES`].
pub(super) async fn page(
    client: &Client,
    rows: &str,
    order: &str,
    parameters: [&str; 2],
) -> Result<Vec<Row>, Failure> {
    let sql = format!(
        "WITH page AS ({rows} LIMIT $3),
              summed AS (SELECT *, sum(size) OVER (ORDER BY {order}) AS upto FROM page)
         SELECT * FROM summed WHERE upto - size < $4 ORDER BY {order}"
    );
    let [first, second] = &parameters;
    Ok(client
        .query(&sql, &[first, second, &PAGE_ROWS, &PAGE_BYTES])
        .await?)
}
