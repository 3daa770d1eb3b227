"""What the user asks for: the workload file, its schema and rules, and the dataflow of each algorithm."""
