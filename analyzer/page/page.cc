// The page: one file, from the asset that is built of web/ and what is embedded here.
#include "analyzer/page/page.h"

#include <fmt/format.h>

#include "analyzer/isolation/stage.h"
#include "analyzer/page/page_asset.h"
#include "analyzer/reporters/verdict/people_lines.h"
#include "analyzer/text/printable.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

constexpr std::string_view kTitleMark = "<!--traintrace:title-->";
constexpr std::string_view kPlainMark = "<!--traintrace:plain-->";
constexpr std::string_view kDataMark = "<!--traintrace:data-->";

std::string html_of(const Finding& finding) {
  std::string out = fmt::format("<section>\n<h2>{}</h2>\n<p><code>{}</code> {}, {}",
                                escaped_html(for_people(finding.title)), finding.code,
                                name_of(finding.severity), word_of(finding.certainty));
  if (!finding.culprits.empty()) {
    out += fmt::format(" &middot; culprits: {}", ranks_text(finding.culprits));
  }
  if (!finding.victims.empty()) {
    out += fmt::format(" &middot; victims: {}", ranks_text(finding.victims));
  }
  out += "</p>\n<ul>\n";
  for (const CodePlace& place : finding.where) {
    out += fmt::format("<li>rank {}: {}{}{}</li>\n", place.rank.value, escaped_html(place.file),
                       place.line > 0 ? fmt::format(":{}", place.line) : "",
                       place.function.empty() ? "" : " in " + escaped_html(place.function));
  }
  for (const std::string& line : finding.evidence) {
    out += fmt::format("<li>{}</li>\n", escaped_html(for_people(line)));
  }
  out += "</ul>\n";
  if (!finding.advice.empty()) {
    out += fmt::format("<p>{}</p>\n", escaped_html(finding.advice));
  }
  return out + "</section>\n";
}

// For readers that run no programs, and where there are no pictures to show.
std::string plain_html(const Run& run, const FindingsReport& report) {
  std::string out =
      fmt::format("<h1>{}</h1>\n<p>{}</p>\n", escaped_html(for_people(report.verdict)),
                  escaped_html(run_line(run)));
  for (const OtherRun& other : run.others) {
    out += fmt::format("<p>{}</p>\n", escaped_html(other_run_line(other)));
  }
  for (const ReportedLoss& loss : report.losses) {
    out += fmt::format("<p>lost: rank {}: {} {} ({}). {}</p>\n", loss.rank.value, loss.count,
                       escaped_html(loss.stat), escaped_html(loss.severity),
                       escaped_html(loss.advice));
  }
  write_each(report, [&](const Finding& finding) { out += html_of(finding); });
  return out;
}

// In a script element nothing ends the JSON but a '<', which only strings can hold.
std::string embedded(const PageJson& json) {
  std::string text = printable_json(json.dump(-1, ' ', false, PageJson::error_handler_t::replace));
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

// What happened, in the name of the browser's tab: its kind, then who and where.
std::string title_of(const FindingsReport& report) {
  const Finding* const first = leading(report.findings);
  return first == nullptr ? for_people(report.verdict)
                          : fmt::format("{}: {}", kind_of(*first), for_people(first->title));
}

PageJson data_of(const Run& run, const FindingsReport& report, const PageOptions& options) {
  PageJson json = PageJson::parse(findings_json(run, report));
  json["schema"] = "traintrace.page/1";
  size_t number = 0;
  for (PageJson& finding : json["findings"]) {
    finding["evidence"] =
        lines_for_people(run, finding["evidence"].get<std::vector<std::string>>());
    finding["root"] = report.findings[number++].root;
  }
  for (size_t i = 0; i < report.losses.size(); ++i) {
    json["losses"][i]["text"] = loss_lines({report.losses[i]}).front();
  }
  json["run_line"] = run_line(run);
  const Finding* const first = leading(report.findings);
  json["leading"] = first == nullptr ? -1 : first - report.findings.data();
  TextTable texts;
  // A screen that fails costs the others nothing.
  const auto part = [&](const char* name, const std::function<PageJson()>& make) {
    json[name] = nullptr;
    run_stage(std::string("page: ") + name, [&] { json[name] = make(); });
  };
  const Ranks culprits = page_culprits(first, report.findings);
  ShownWaits shown;
  run_stage("page: shown waits", [&] { shown = shown_waits(run, first); });
  part("card", [&] {
    CardOptions card = options.card;
    card.source_lines = 2;
    return first == nullptr ? PageJson() : page_card(card_of(run, *first, card, report.findings));
  });
  part("ranks", [&] { return page_ranks(run, shown, report.findings, culprits, texts); });
  part("communicators", [&] { return page_communicators(run, first); });
  part("lanes", [&] { return page_lanes(run, shown, first, culprits, texts); });
  part("waits", [&] { return page_waits(run, shown, culprits); });
  part("stacks", [&] { return page_stacks(run, culprits, texts); });
  part("memory", [&] { return page_memory(run, report.findings, options, texts); });
  part("steps", [&] { return page_steps(run.profile.get(), texts); });
  part("numbers", [&] { return page_numbers(run, report.findings); });
  part("environment", [&] { return page_environment(run); });
  for (const char* const list : {"communicators", "memory", "environment"}) {
    if (json[list].is_null()) {
      json[list] = PageJson::array();
    }
  }
  json["texts"] = texts.json();
  return json;
}

}  // namespace

namespace {

// The asset with what belongs into its three places.
std::string filled(const std::string& title, const std::string& plain,
                   const std::function<PageJson()>& data) {
  const std::string tab = escaped_html(title);
  const std::string_view page = page_asset();
  const size_t title_at = page.find(kTitleMark);
  const size_t plain_at = page.find(kPlainMark);
  const size_t data_at = page.find(kDataMark);
  if (data_at == std::string_view::npos) {
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\">\n"
        "<title>{}</title></head>\n<body>\n{}<p>This traintrace was built without "
        "analyzer/page/built/page.html: there are no pictures.</p>\n</body></html>\n",
        tab, plain);
  }
  const auto piece = [&](size_t from, size_t to) {
    return std::string(page.substr(from, to - from));
  };
  return piece(0, title_at) + tab + piece(title_at + kTitleMark.size(), plain_at) + plain +
         piece(plain_at + kPlainMark.size(), data_at) + embedded(data()) +
         piece(data_at + kDataMark.size(), page.size());
}

std::string escaped_html_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    out += escaped_html(line) + '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string page_html(const Run& run, const FindingsReport& report, const PageOptions& options) {
  return filled(title_of(report), plain_html(run, report),
                [&] { return data_of(run, report, options); });
}

std::string sheet_html(const Sheet& sheet) {
  const std::string plain = fmt::format("<h1>{}</h1>\n<pre>{}</pre>\n", escaped_html(sheet.title),
                                        escaped_html_lines(sheet.text));
  return filled(sheet.title, plain, [&] {
    PageJson json = {{"schema", "traintrace.page/1"}, {"kind", sheet.kind}, {"title", sheet.title}};
    json["inputs"] = sheet.inputs;
    json["next"] = PageJson::array();
    for (const CardCommand& next : sheet.next) {
      json["next"].push_back({{"command", next.command}, {"purpose", next.purpose}});
    }
    json["run"] = {{"start_ns", 0}, {"live", false}};
    json[sheet.kind] = PageJson::parse(sheet.json);
    TextTable texts;
    json["steps"] = nullptr;
    if (sheet.profile != nullptr) {
      run_stage("page: steps", [&] { json["steps"] = page_steps(sheet.profile, texts); });
    }
    json["texts"] = texts.json();
    return json;
  });
}

}  // namespace traintrace
