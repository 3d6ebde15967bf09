"""What training a model needs: memory by part, tokens and arithmetic of a step, and how to share it out over GPUs."""
