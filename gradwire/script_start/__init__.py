"""What runs in a user's Python before the user's script. A folder of its own on the script's path: it has no other module's name."""
