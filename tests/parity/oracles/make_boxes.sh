#!/usr/bin/env bash
# Makes the boxes of the parity tests with GROMACS 2022.5 (Debian 12): two triclinic ones, solvated and equilibrated
# for 20 ps, and `settled`, whose nine decimals hold molecules that satisfy their constraints.
# usage: make_boxes.sh DIRECTORY
set -euo pipefail
system=$(cd "$(dirname "$0")/../../../src/pulsemd/systems/files/water" && pwd)
mkdir -p "$1" && cd "$1"
export GMX_MAXBACKUP=-1 OMP_NUM_THREADS=1

set_option() { # OPTION VALUE, in md.mdp
  sed -i -E "s/^($1 *= *)[^ ]*/\1$2/" md.mdp
}

simulate() { # GMX NAME: grompp and mdrun with md.mdp and NAME.gro
  "$1" grompp -quiet -f md.mdp -c "$2.gro" -p topol.top -o "$2.tpr"
  "$1" mdrun -quiet -s "$2.tpr" -o "$2.trr" -c "$2.gro" -e "$2.edr" -g "$2.log" -ntmpi 1 -ntomp 1
}

triclinic() { # NAME BOX...: nine numbers in the order of a .gro file
  printf 'cell\n0\n%s\n' "${*:2}" >cell.gro
  gmx solvate -quiet -cp cell.gro -cs spc216.gro -o "$1.gro"
  local n
  n=$(($(sed -n 2p "$1.gro") / 3))
  sed -E "s/^SOL  [0-9]+/SOL  $n/" "$system/topol.top" >topol.top
  sed -E 's/^(integrator *= *)md/\1steep/; s/^(nsteps *= *)[0-9]+/\1100/' "$system/run.mdp" >md.mdp
  simulate gmx "$1"
  cp "$system/run.mdp" md.mdp
  set_option nsteps 10000
  simulate gmx "$1"
}

triclinic dodecahedron 3.8 3.8 2.68701 0 0 0 0 1.9 1.9
triclinic octahedron 3.6 3.39411 2.93939 0 0 1.2 0 -1.2 1.69706

cp "$system/conf.gro" settled.gro
cp "$system/topol.top" topol.top
cp "$system/run.mdp" md.mdp
set_option nsteps 1000
sed -i -E 's/^(nstxout-compressed *= *).*/\10\nnstxout = 1000\nnstvout = 1000/' md.mdp
simulate gmx_d settled
echo 0 | gmx_d trjconv -quiet -s settled.tpr -f settled.trr -dump 2 -o settled.g96
awk '/^[A-Z]+$/ { block = $1; next }
  block == "POSITION" { name[++n] = sprintf("%5d%-5s%5s%5d", $1, $2, $3, $4); x[n] = sprintf("%14.9f%14.9f%14.9f", $5, $6, $7) }
  block == "VELOCITY" { v[++m] = sprintf("%14.10f%14.10f%14.10f", $5, $6, $7) }
  block == "BOX" { box = $0 }
  END { print "SPC/E water that satisfies its constraints"; print n
        for (i = 1; i <= n; i++) print name[i] x[i] v[i]
        print box }' settled.g96 >settled.gro
