#!/bin/sh
# An agent that looks at everything three times.
. "$(dirname "$0")/investigations.sh"
n=1
while step $n || [ $? -ne 9 ]; do
	step $n
	step $n
	n=$((n + 1))
done
answer
