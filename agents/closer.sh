#!/bin/sh
# An agent that looks at one thing after the other, in the right order, and answers.
. "$(dirname "$0")/investigations.sh"
n=1
while step $n || [ $? -ne 9 ]; do n=$((n + 1)); done
answer
