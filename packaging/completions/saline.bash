# Completion for bash of the commands of Saline, which know the candidates themselves, and of its daemons.

_saline() {
	local IFS=$'\n'
	COMPREPLY=($("$1" --complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2> /dev/null))
}
complete -o default -F _saline saline saline-call saline-cp saline-key saline-run

complete -o default -W '--check --config-dir --health --help --log-level --pid-file --version --versions-report' \
	saline-api saline-master saline-minion
