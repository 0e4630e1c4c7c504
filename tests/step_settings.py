"""Settings of ten steps beside gmx, so exact that nothing but the method under test can tell the two apart."""

TEN_STEPS = """
integrator = md
dt = 0.002
nsteps = 10
nstcalcenergy = 1
nstenergy = 1
nstlist = 20
verlet-buffer-tolerance = -1
rlist = 1.2
rcoulomb = 1.0
rvdw = 1.0
vdw-modifier = potential-shift
constraints = h-bonds
constraint-algorithm = shake
shake-tol = 1e-12
continuation = yes
"""
