"""Results as pandas DataFrames, and the CSV and Parquet files that are written from them. Nothing that runs in the machine imports this."""
