"""What the commands of the command line do. Each module is imported when one of its commands is called."""
