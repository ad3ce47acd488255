"""Every interleaving of the product's own Python code, with a death possible before every access.

product     the product's modules, loaded from their source on a kernel of ours; broken variants are edits of it
actors      one process as an automaton: what it asks for next, given the answers it has got
search      all states of several actors on one world; the shortest schedule to a fault
words       shared words, the kernel's locks, and what an actor does to them
steps       what a process may do: reserve, release, adjust, reap, set a limit, claim, leave
memory      the model of the shared memory, and its invariants
scenarios   who does what, with how many deaths
files       a file system, and what an actor does to it
opening     the model of opening, replacing and unlinking, and its invariants
variants    lines of the product broken on purpose
"""
