// A raw client and a small site, for the tests of http/.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "http/message.h"
#include "http/server.h"

namespace hadal {

// Blocking, with a limit of 20 s on every read, so that a test fails instead of hanging.
class TestClient {
 public:
  struct Unconnected {};
  explicit TestClient(uint16_t port, int receive_buffer = 0)
      : TestClient(Unconnected(), receive_buffer) {
    Connect(port);
  }
  explicit TestClient(Unconnected) : TestClient(Unconnected(), 0) {}
  void Connect(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { Close(); }
  TestClient(TestClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        buffer_(std::move(other.buffer_)) {}

  bool connected() const { return connected_; }

  // False when the peer has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void ShutdownSend() { ::shutdown(socket_, SHUT_WR); }
  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // One read into the buffer; false at the end or after an error.
  bool Fill() {
    char chunk[16384];
    const ssize_t n = ::recv(socket_, chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    buffer_.append(chunk, static_cast<size_t>(n));
    return true;
  }
  std::string ReadToEnd() {
    while (Fill()) {
    }
    return std::exchange(buffer_, {});
  }
  std::string ReadUntil(std::string_view mark) {
    size_t at;
    while ((at = buffer_.find(mark)) == std::string::npos) {
      if (!Fill()) return std::exchange(buffer_, {});
    }
    return Take(at + mark.size());
  }

  // The next response; status 0 when the connection ended before it was whole.
  Reply Read(bool head_only = false) {
    Reply reply;
    const std::string head = ReadUntil("\r\n\r\n");
    if (head.size() < 16 || head.substr(0, 9) != "HTTP/1.1 ") return {0, Headers(), ""};
    const int status = std::stoi(head.substr(9));
    for (size_t at = head.find("\r\n") + 2; at < head.size() - 2;) {
      const size_t end = head.find("\r\n", at);
      const size_t colon = head.find(": ", at);
      reply.headers.Add(head.substr(at, colon - at), head.substr(colon + 2, end - colon - 2));
      at = end + 2;
    }
    const auto length = reply.headers.Find("content-length");
    if (!head_only && length) {
      const size_t n = std::stoul(std::string(*length));
      while (buffer_.size() < n) {
        if (!Fill()) return {0, Headers(), ""};
      }
      reply.body = Take(n);
    } else if (!head_only && reply.headers.Has("transfer-encoding")) {
      while (true) {
        const std::string line = ReadUntil("\r\n");
        if (line.size() < 3) return {0, Headers(), ""};
        const size_t n = std::stoul(line, nullptr, 16);
        while (buffer_.size() < n + 2) {
          if (!Fill()) return {0, Headers(), ""};
        }
        reply.body += Take(n + 2).substr(0, n);
        if (n == 0) break;
      }
    }
    reply.status = status;
    return reply;
  }

  Reply Get(std::string_view path, std::string_view more_headers = "") {
    Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(more_headers) +
         "\r\n");
    return Read();
  }
  Reply Post(std::string_view path, std::string_view body, std::string_view more_headers = "") {
    Send("POST " + std::string(path) +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more_headers) + "\r\n" + std::string(body));
    return Read();
  }

 private:
  TestClient(Unconnected, int receive_buffer) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_GE(socket_, 0);
    const timeval limit{20, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
  }
  std::string Take(size_t n) {
    std::string front = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return front;
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

// Waits until `condition` holds; false after 20 s.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline Reply TextReply(int status, std::string body) {
  return {status, Headers("content-type", "text/plain"), std::move(body)};
}

}  // namespace hadal
