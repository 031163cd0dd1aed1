lockstep_test(fault_unauthenticated LABEL fault SOURCES unauthenticated.cpp LINKS lockstep::rendezvous lockstep_comm_ranks)
