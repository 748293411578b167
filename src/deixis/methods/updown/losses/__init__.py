"""What each method adds to training: one idea, one file, one test. Objectives are plain functions and add up."""
