"""Reading back aloud: any class or entry as one English sentence, each clause with the place that it was written at."""
