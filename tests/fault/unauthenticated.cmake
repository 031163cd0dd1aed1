lockstep_test(fault_unauthenticated LABEL fault SOURCES unauthenticated.cpp LINKS lockstep::rendezvous lockstep_comm_ranks)
lockstep_test(fault_relayed LABEL fault SOURCES relayed.cpp relay.cpp LINKS lockstep_comm_ranks)
lockstep_test(fault_flood LABEL fault TIMEOUT 120 SOURCES flood.cpp LINKS lockstep_comm_ranks)
