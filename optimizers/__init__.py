"""What is learned: prompts, structure and policies, and the statistics that judge them."""
