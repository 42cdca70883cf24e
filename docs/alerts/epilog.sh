#!/bin/bash
# Slurm's Epilog, on each node: drains it if its GPUs had errors while the job was there (a status other than 0 does that).
#   slurm.conf: Epilog=/etc/slurm/epilog.d/traintrace     jobs record to $TRAINTRACE_JOBS/JOBID
set -u
traces=${TRAINTRACE_JOBS:-/scratch/traintrace}/$SLURM_JOB_ID
host=$(uname -n)
shopt -s nullglob
own=("$traces/$host".*.trace "$traces/telemetry.$host".*.log)
((${#own[@]} > 0)) || exit 0 # nothing was recorded
timeout 60 traintrace analyze "${own[@]}" --only=device.xid,device.ecc --output="$traces/epilog.$host.txt" 2>/dev/null
# 1: an error; 0: none; everything else says nothing about the node.
(($? != 1))
