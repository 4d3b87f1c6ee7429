"""Models, devices and strategies that users bring as plain files: what a file may say, and how it becomes what gradwire works with."""
