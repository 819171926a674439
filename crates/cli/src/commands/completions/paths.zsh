# Completes cluster paths, or falls back to zsh's own completion where none is valid.
_pario_path() {
    local found only
    found="$(command ${service:-pario} complete-path "$LBUFFER" 2>/dev/null)"
    only=$?
    local -a all directories files
    all=("${(@f)found}")
    directories=(${(M)all:#*/})
    files=(${all:#(*/|)})
    (( $#directories )) && compadd -S '' -- $directories
    (( $#files )) && compadd -- $files
    (( only )) && _files
    return 0
}
