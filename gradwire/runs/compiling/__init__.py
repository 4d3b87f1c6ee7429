"""Plans of many points: compiled once where points share them, and side by side in processes."""
