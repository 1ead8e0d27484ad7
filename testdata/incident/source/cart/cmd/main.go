package main

const released = "2024-05-01T10:00:00Z"

func main() {}
