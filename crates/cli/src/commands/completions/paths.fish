# Completes cluster paths; offers local files only where they are valid.
function __pario_paths
    command pario complete-path (commandline -cp | string collect) 2>/dev/null
end

function __pario_only_paths
    command pario complete-path (commandline -cp | string collect) >/dev/null 2>&1
end

complete -c pario -n __pario_only_paths -f -a '(__pario_paths)'
complete -c pario -n 'not __pario_only_paths' -a '(__pario_paths)'
