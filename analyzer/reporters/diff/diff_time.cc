#include "analyzer/reporters/diff/diff_time.h"
#include "analyzer/thresholds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace traintrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostLines = 10;
constexpr size_t kMostName = 100;

std::string ms(double ns) {
  return fmt::format("{:.3f} ms", ns / 1e6);
}

std::string unit(const ProfileDiff& diff) {
  return diff.per_step ? "per step" : "in all that was recorded";
}

std::string label(size_t bucket) {
  return fmt::format("{}{}", is_idle_bucket(bucket) ? "idle, " : "", bucket_name(bucket));
}

// Those that grew, most first; with `sign` -1 those that shrank.
std::vector<size_t> grown(const ProfileDiff& diff, double sign) {
  std::vector<size_t> found;
  for (size_t i = 0; i < kTimeBuckets; ++i) {
    if (sign * diff.growth(diff.buckets[i]) >= kGrown) {
      found.push_back(i);
    }
  }
  std::stable_sort(found.begin(), found.end(), [&](size_t x, size_t y) {
    return sign * diff.growth(diff.buckets[x]) > sign * diff.growth(diff.buckets[y]);
  });
  return found;
}

std::string share_change(const ProfileDiff& diff, const Pair& pair) {
  const double percent = 100 * diff.growth(pair);
  return diff.per_step
             ? fmt::format("{} by {}", percent > 0 ? "grew" : "shrank", ms(std::abs(pair.change())))
             : fmt::format("is {:.1f} % of the time instead of {:.1f} %",
                           100 * pair.b / diff.window_ns.b, 100 * pair.a / diff.window_ns.a);
}

std::string changes_text(const ProfileDiff& diff, const std::vector<size_t>& buckets) {
  std::string text;
  for (const size_t bucket : buckets) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", label(bucket),
                        share_change(diff, diff.buckets[bucket]));
  }
  return text;
}

// "rank 1: compute grew by 3.478 ms; the others wait 3.485 ms longer for ranks"; empty: no rank
// stands out.
std::string apart_text(const ProfileDiff& diff) {
  std::string text;
  Rank last;
  for (const RankChange& each : diff.apart) {
    text += fmt::format("{}{}{} grew by {}", text.empty() ? "" : ", ",
                        each.rank == last ? "" : fmt::format("rank {}: ", each.rank.value),
                        label(each.bucket), ms(each.ns.change()));
    last = each.rank;
  }
  if (!text.empty() && diff.has_grown(diff.waiting)) {
    text += fmt::format("; in consequence the others wait {} longer for ranks",
                        ms(diff.waiting.change()));
  }
  return text;
}

Json pair_json(const Pair& pair) {
  return {{"a_ns", std::llround(pair.a)}, {"b_ns", std::llround(pair.b)}};
}

const char* change_name(const SyncChange& sync) {
  return sync.count.a == 0         ? "new"
         : sync.count.b == 0       ? "vanished"
         : sync.count.change() > 0 ? "more"
                                   : "fewer";
}

std::string sync_line(const ProfileDiff& diff, const SyncChange& sync) {
  const double blocked = sync.count.b == 0 ? sync.blocked_ns.a : sync.blocked_ns.b;
  return fmt::format("{} synchronisation: {}{}, {:.1f} times instead of {:.1f} {}, {} in it\n",
                     change_name(sync), sync.call, sync.site.empty() ? "" : " at " + sync.site,
                     sync.count.b, sync.count.a, unit(diff), ms(blocked));
}

std::string kernel_lines(const ProfileDiff& diff, const std::vector<KernelChange>& kernels,
                         const char* which) {
  std::string text;
  for (size_t i = 0; i < std::min(kernels.size(), kMostLines); ++i) {
    const KernelChange& kernel = kernels[i];
    text += fmt::format(
        "{} kernel: {}, {} {}\n", which,
        kernel.name.size() > kMostName ? kernel.name.substr(0, kMostName) + ".." : kernel.name,
        ms(kernel.ns.a + kernel.ns.b), unit(diff));
  }
  if (kernels.size() > kMostLines) {
    text += fmt::format("{} more {} kernels\n", kernels.size() - kMostLines, which);
  }
  return text;
}

std::string row(std::string_view name, const Pair& pair, std::string_view more) {
  return fmt::format("    {:<24}{:>12}{:>12}{:>+12.3f}{}\n", name, ms(pair.a), ms(pair.b),
                     pair.change() / 1e6, more);
}

std::array<double, 2> kernel_time(const ProfileDiff& diff) {
  std::array<double, 2> sums{};
  for (const Pair& pair : diff.kernels) {
    sums[0] += pair.a;
    sums[1] += pair.b;
  }
  return {std::max(sums[0], 1.0), std::max(sums[1], 1.0)};
}

}  // namespace

std::string time_verdict(const ProfileDiff& diff) {
  if (diff.ranks.empty()) {
    return "the timelines have no rank in common";
  }
  const std::vector<size_t> more = grown(diff, 1);
  const std::string what = changes_text(diff, more);
  if (!diff.per_step) {
    return more.empty() ? "no part of the time grew by 5 % of it"
                        : "steps are not known in both runs, but of all that was recorded " + what;
  }
  const double growth = diff.growth(diff.window_ns);
  const std::string steps = fmt::format("{} instead of {} ({:+.1f} %)", ms(diff.window_ns.b),
                                        ms(diff.window_ns.a), 100 * growth);
  if (const std::string apart = apart_text(diff); !apart.empty()) {
    // Ranks that do not wait for that one have steps as short as before.
    const bool is_mean = diff.apart.front().ns.change() > diff.window_ns.change();
    return fmt::format("{}a step takes {}: {}", is_mean ? "averaged over the ranks, " : "", steps,
                       apart);
  }
  if (std::abs(growth) < kGrown) {
    return more.empty() ? "no part of a step grew by 5 % of it: a step takes " + steps
                        : "a step takes " + steps + ", but " + what;
  }
  const std::string why =
      growth > 0 ? what : changes_text(diff, grown(diff, -1)) + (what.empty() ? "" : ", ") + what;
  return "a step takes " + steps + (why.empty() ? ", a little of each part" : ": " + why);
}

std::string time_text(const ProfileDiff& diff) {
  if (diff.ranks.empty()) {
    return "";
  }
  std::string text = fmt::format("time {}, {}:\n", unit(diff), ranks_text(diff.ranks));
  text += fmt::format("    {:<24}{:>12}{:>12}{:>12}\n", "", "A", "B", "change, ms");
  text += row("all", diff.window_ns, "");
  for (size_t i = 0; i < kTimeBuckets; ++i) {
    if (diff.buckets[i].a != 0 || diff.buckets[i].b != 0) {
      text += row(label(i), diff.buckets[i],
                  diff.has_grown(diff.buckets[i])           ? "  grew"
                  : diff.growth(diff.buckets[i]) <= -kGrown ? "  shrank"
                                                            : "");
    }
  }
  text += fmt::format("{:<28}{:>12}{:>12}{:>12}  of A, of B\n", "time in kernels and copies:", "A",
                      "B", "change, ms");
  const auto [all_a, all_b] = kernel_time(diff);
  for (size_t i = 0; i < kKernelCategories; ++i) {
    const Pair& pair = diff.kernels[i];
    if (pair.a != 0 || pair.b != 0) {
      text += row(kKernelCategoryNames[i], pair,
                  fmt::format("  {:.1f} %, {:.1f} %", 100 * pair.a / all_a, 100 * pair.b / all_b));
    }
  }
  for (size_t i = 0; i < std::min(diff.syncs.size(), kMostLines); ++i) {
    text += sync_line(diff, diff.syncs[i]);
  }
  text += kernel_lines(diff, diff.only_b, "new") + kernel_lines(diff, diff.only_a, "vanished");
  for (const auto& [ranks, run] :
       {std::pair(&diff.only_in_a, 'A'), std::pair(&diff.only_in_b, 'B')}) {
    text += ranks->empty() ? "" : fmt::format("{}: only in {}\n", ranks_text(*ranks), run);
  }
  return text;
}

Json time_json(const ProfileDiff& diff) {
  const auto numbers = [](const Ranks& ranks) {
    Json list = Json::array();
    for (const Rank rank : ranks) {
      list.push_back(rank.value);
    }
    return list;
  };
  Json json = {{"per", diff.per_step ? "step" : "recording"},
               {"ranks", numbers(diff.ranks)},
               {"only_in_a", numbers(diff.only_in_a)},
               {"only_in_b", numbers(diff.only_in_b)},
               {"window", pair_json(diff.window_ns)},
               {"buckets", Json::array()},
               {"ranks_apart", Json::array()},
               {"kernels", Json::array()},
               {"synchronisations", Json::array()},
               {"new_kernels", Json::array()},
               {"vanished_kernels", Json::array()}};
  for (size_t i = 0; i < kTimeBuckets; ++i) {
    Json& bucket = json["buckets"].emplace_back(pair_json(diff.buckets[i]));
    bucket["bucket"] = bucket_name(i);
    bucket["idle"] = is_idle_bucket(i);
    bucket["grew"] = diff.has_grown(diff.buckets[i]);
  }
  for (const RankChange& each : diff.apart) {
    Json& apart = json["ranks_apart"].emplace_back(pair_json(each.ns));
    apart["rank"] = each.rank.value;
    apart["bucket"] = bucket_name(each.bucket);
  }
  const auto [all_a, all_b] = kernel_time(diff);
  for (size_t i = 0; i < kKernelCategories; ++i) {
    Json& category = json["kernels"].emplace_back(pair_json(diff.kernels[i]));
    category["category"] = kKernelCategoryNames[i];
    category["a_percent"] = 100 * diff.kernels[i].a / all_a;
    category["b_percent"] = 100 * diff.kernels[i].b / all_b;
  }
  for (const SyncChange& sync : diff.syncs) {
    json["synchronisations"].push_back({{"change", change_name(sync)},
                                        {"call", sync.call},
                                        {"site", sync.site},
                                        {"a_count", sync.count.a},
                                        {"b_count", sync.count.b},
                                        {"a_blocked_ns", std::llround(sync.blocked_ns.a)},
                                        {"b_blocked_ns", std::llround(sync.blocked_ns.b)}});
  }
  for (const KernelChange& kernel : diff.only_b) {
    json["new_kernels"].push_back({{"name", kernel.name}, {"ns", std::llround(kernel.ns.b)}});
  }
  for (const KernelChange& kernel : diff.only_a) {
    json["vanished_kernels"].push_back({{"name", kernel.name}, {"ns", std::llround(kernel.ns.a)}});
  }
  return json;
}

}  // namespace traintrace
