#!/bin/sh
# An agent that guesses right, without having looked.
. "$(dirname "$0")/investigations.sh"
answer
