lockstep_test(fault_strangers LABEL fault SOURCES strangers.cpp LINKS lockstep::rendezvous lockstep_comm_ranks)
