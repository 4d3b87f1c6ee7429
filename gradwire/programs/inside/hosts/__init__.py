"""What programs run in: hosts with networks of their own, in a sandbox that keeps them from the job."""
