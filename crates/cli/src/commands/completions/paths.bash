# Completes cluster paths, in addition to the function below.
_pario_with_paths() {
    local found only=0 cur="$2" reply
    found="$("$1" complete-path "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)" || only=$?
    if [[ $only -ne 0 && -z $found ]]; then
        _pario "$@"
        return
    fi
    COMPREPLY=()
    while IFS= read -r reply; do
        [[ -n $reply ]] && COMPREPLY+=("$(printf '%q' "$reply")")
    done <<<"$found"
    if [[ $only -eq 0 ]]; then
        # Only a cluster path is valid here: do not offer local files.
        compopt +o default +o bashdefault 2>/dev/null
    else
        while IFS= read -r reply; do
            [[ -d $reply ]] && reply+=/
            [[ -n $reply ]] && COMPREPLY+=("$(printf '%q' "$reply")")
        done <<<"$(compgen -f -- "$cur")"
    fi
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
