"""`python -m gradwire`: the command line."""

from gradwire.command_line import main

main()
