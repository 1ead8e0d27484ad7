#!/bin/sh
# An agent that looks at the same things as the closer, in the wrong order.
. "$(dirname "$0")/investigations.sh"
for n in 5 4 3 2 1; do step $n; done
answer
