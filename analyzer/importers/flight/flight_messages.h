// Sends and receives of a Flight Recorder dump.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "analyzer/importers/flight/flight_entry.h"
#include "analyzer/reader/process_trace.h"
#include "format/hashes.h"

namespace traintrace {

class FlightMessages {
 public:
  // Numbers `operation`, the next of its pair on the group with that index.
  void add(size_t index, OperationText& operation) {
    if (operation.peer < 0) {  // from anybody: which receive is whose cannot be told
      countable_ = false;
      return;
    }
    PeerText& peer = peers_[{index, operation.receive, operation.peer}];
    operation.sequence = ++peer.operations;
    const auto type = static_cast<uint8_t>(operation.data_type);
    peer.hash = format::mixed(format::mixed(peer.hash, operation.count), type);
    peer.last = operation.enter;
  }

  void put(ProcessTrace& trace) const {
    for (const auto& [key, counted] : peers_) {
      const auto& [index, receive, rank] = key;
      PeerText& peer = trace.peers.emplace_back(counted);
      peer.communicator = static_cast<uint32_t>(index + 1);
      peer.receive = receive;
      peer.peer = rank;
    }
  }
  bool countable() const { return countable_; }

  // Where one dump does not say all that its process sent and received, nobody's can be compared.
  static void forget(ProcessTrace& trace) {
    trace.peers.clear();
    for (CommunicatorText& text : trace.communicators) {
      for (OperationText& operation : text.recent) {
        operation.sequence = operation.collective ? operation.sequence : 0;
      }
    }
  }

 private:
  std::map<std::tuple<size_t, bool, int>, PeerText> peers_;
  bool countable_ = true;
};

}  // namespace traintrace
