#include "analyzer/importers/kineto/kineto_rest.h"

#include <simdjson.h>

#include <algorithm>

#include "analyzer/importers/kineto/kineto_event.h"

namespace traintrace::kineto {
namespace {

namespace json = simdjson::ondemand;

// With any time of an event it makes one that can be added to others.
constexpr int64_t kMostBaseNs = int64_t{1} << 61;
constexpr size_t kMostModels = 1 << 10;

std::optional<int> small_number(json::value value) {
  constexpr int kMost = 1 << 20;  // more ranks than any job has
  const std::optional<int> number = number_of<int>(token_of(value));
  return number && *number >= 0 && *number <= kMost ? number : std::nullopt;
}

// Field by field: after an error of one lookup simdjson must not be asked for another.
void read_job(json::value value, Timeline& timeline) {
  json::object job;
  if (value.get_object().get(job) != simdjson::SUCCESS) {
    return;
  }
  for (auto field : job) {
    const json::raw_json_string key = field.key();
    if (key == "rank") {
      timeline.rank = small_number(field.value());
    } else if (key == "world_size") {
      timeline.world_size = small_number(field.value());
    }
  }
}

std::optional<DeviceModel> read_model(json::object device) {
  DeviceModel model;
  for (auto field : device) {
    const json::raw_json_string key = field.key();
    if (key == "id") {
      model.device = small_number(field.value()).value_or(-1);
    } else if (key == "computeMajor") {
      model.major = small_number(field.value()).value_or(0);
    } else if (key == "computeMinor") {
      model.minor = small_number(field.value()).value_or(0);
    } else if (key == "name") {
      std::string_view name;
      model.name = field.value().get_string().get(name) == simdjson::SUCCESS ? name : "";
    }
  }
  return model.device < 0 ? std::nullopt : std::optional(std::move(model));
}

void read_models(json::value value, Timeline& timeline) {
  json::array devices;
  if (value.get_array().get(devices) != simdjson::SUCCESS) {
    return;
  }
  for (auto element : devices) {
    json::object device;
    if (element.get_object().get(device) != simdjson::SUCCESS) {
      return;
    }
    std::optional<DeviceModel> model = read_model(device);
    if (model && timeline.models.size() < kMostModels) {
      timeline.models.push_back(std::move(*model));
    }
  }
}

}  // namespace

std::string read_rest(const std::string& rest, Timeline& timeline) {
  const simdjson::padded_string text(rest);
  json::parser parser;
  json::document document;
  json::object object;
  if (parser.iterate(text).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS) {
    return "";  // nothing but events
  }
  try {
    for (auto field : object) {
      const json::raw_json_string key = field.key();
      if (key == "baseTimeNanoseconds") {
        const int64_t base = number_of<int64_t>(token_of(field.value())).value_or(0);
        timeline.base_ns = std::clamp(base, -kMostBaseNs, kMostBaseNs);
      } else if (key == "distributedInfo") {
        read_job(field.value(), timeline);
      } else if (key == "deviceProperties") {
        read_models(field.value(), timeline);
      } else if (key == kKnowsWaitsKey) {
        timeline.knows_waits = token_of(field.value()) == "true";
      }
    }
  } catch (const simdjson::simdjson_error& error) {
    return std::string("expected JSON beside the events: ") + error.what();
  }
  return "";
}

}  // namespace traintrace::kineto
