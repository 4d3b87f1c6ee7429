"""The commands of the command line. Each module is imported when one of its commands is called."""
