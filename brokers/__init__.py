"""The data plane: broker agents on ActiveMQ and the library of publishers and subscribers."""
