#include <cstdlib>
#include <iostream>

#include "common.h"

namespace {

constexpr char kUsage[] =
    "usage: serve --size N --response M --window W\n"
    "       call --server ADDRESS --size N --response M --window W\n";

bool read_number(const char* text, size_t* number) {
  char* end = nullptr;
  long value = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < 0 || value > peer::kMessageBytesMax) return false;
  *number = static_cast<size_t>(value);
  return true;
}

bool read_option(const std::string& name, const char* value, peer::Options* options) {
  if (name == "--server") {
    options->server = value;
    return true;
  }
  if (name == "--size") return read_number(value, &options->size);
  if (name == "--response") return read_number(value, &options->response);
  if (name == "--window") return read_number(value, &options->window) && options->window > 0;
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  peer::Options options;
  std::string role = count > 1 ? arguments[1] : "";
  bool is_valid = count % 2 == 0 && (role == "serve" || role == "call");
  for (int at = 2; is_valid && at < count; at += 2) {
    is_valid = read_option(arguments[at], arguments[at + 1], &options);
  }
  if (!is_valid || (role == "call" && options.server.empty())) {
    std::cerr << kUsage;
    return 2;
  }
  return role == "serve" ? peer::serve(options) : peer::call(options);
}
