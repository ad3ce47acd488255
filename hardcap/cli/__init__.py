"""The command line: the only import of rich.

Layers, lowest first; a module imports only from those above it in this table:

    samples      what is under a directory, read twice, and what happened in between
    text         figures, ages and small pictures in text
    tables       what status and top show
    keys         single keys from a terminal
    status       hardcap status
    top          hardcap top
    change       hardcap set-limit, reap, unlink
    look         hardcap verify, metrics
    fitness      hardcap check
    main         arguments, errors, exit statuses
"""
