// Empty: it lets manager.go declare a function that it takes from elsewhere.
