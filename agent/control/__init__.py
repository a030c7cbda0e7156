"""Where a running agent is asked: its socket, the answers, the scraped metrics, the configuration in force."""
