#include "analyzer/live/ras.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>

namespace traintrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kReplyPatience = std::chrono::seconds(2);
constexpr size_t kMostReplyBytes = 1 << 20;
constexpr size_t kMostLines = 60;

class Connection {
 public:
  explicit Connection(const addrinfo& to)
      : socket_(
            socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol)) {
    const bool begun =
        socket_ >= 0 && (connect(socket_, to.ai_addr, to.ai_addrlen) == 0 || errno == EINPROGRESS);
    int error = 0;
    socklen_t bytes = sizeof error;
    connected_ = begun && is_ready(POLLOUT) &&
                 getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (socket_ >= 0) {
      close(socket_);
    }
  }

  bool is_connected() const { return connected_; }

  bool say(const std::string& text) {
    return send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  // Up to the end of a line, or until the other side is done.
  std::string hear(bool one_line) {
    std::string heard;
    char bytes[4096];
    while (heard.size() < kMostReplyBytes && !(one_line && heard.ends_with('\n')) &&
           is_ready(POLLIN)) {
      const ssize_t got = recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) {
        break;
      }
      heard.append(bytes, static_cast<size_t>(got));
    }
    return heard;
  }

 private:
  bool is_ready(short what) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
    pollfd one = {socket_, what, 0};
    return left.count() > 0 && poll(&one, 1, static_cast<int>(left.count())) == 1;
  }

  int socket_;
  bool connected_ = false;
  Clock::time_point end_ = Clock::now() + kReplyPatience;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; lines.size() < kMostLines && std::getline(in, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) {
      lines.push_back(line);
    }
  }
  return lines;
}

std::vector<std::string> status_from(const addrinfo& to) {
  Connection ras(to);
  // Whoever else listens there does not know these words, and is asked nothing further.
  if (!ras.is_connected() || !ras.say("CLIENT PROTOCOL 2\n") ||
      !ras.hear(true).starts_with("SERVER PROTOCOL ") || !ras.say("STATUS\n")) {
    return {};
  }
  return lines_of(ras.hear(false));
}

}  // namespace

std::vector<std::string> ask_ras(const std::string& address) {
  const std::string where = address.empty() ? "localhost:28028" : address;
  const size_t colon = where.rfind(':');
  if (colon == where.npos) {
    return {};
  }
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(where.substr(0, colon).c_str(), where.substr(colon + 1).c_str(), &wanted,
                  &found) != 0) {
    return {};
  }
  std::vector<std::string> lines;
  for (const addrinfo* to = found; to != nullptr && lines.empty(); to = to->ai_next) {
    lines = status_from(*to);
  }
  freeaddrinfo(found);
  return lines;
}

}  // namespace traintrace
