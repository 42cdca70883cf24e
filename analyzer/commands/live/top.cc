// traintrace top: a running job, live.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "analyzer/commands/command.h"
#include "analyzer/reporters/verdict/card.h"
#include "analyzer/text/screen.h"
#include "analyzer/text/shell_word.h"
#include "analyzer/text/words.h"
#include "analyzer/top/job_view.h"
#include "analyzer/top/recorded_folders.h"
#include "analyzer/top/terminal.h"
#include "analyzer/top/top_text.h"

namespace traintrace {
namespace {

using Clock = std::chrono::steady_clock;

struct TopOptions {
  std::vector<std::string> traces;
  bool all = false;
  bool once = false;
  std::string interval = "1s";
  std::string blocked_after = "5s";
  std::string sort = "lag";
  std::string format = "text";
  int looks = 0;  // 0: until somebody ends it
};

TopOrder order_of(const std::string& name) {
  for (const TopOrder order :
       {TopOrder::kRank, TopOrder::kLag, TopOrder::kMemory, TopOrder::kGrowth}) {
    if (name == order_name(order)) {
      return order;
    }
  }
  return TopOrder::kLag;
}

// `command` of this program, on the terminal as it was, until it ends and a key is pressed.
void run_aside(LiveTerminal& terminal, const std::vector<std::string>& command) {
  terminal.pause();
  std::vector<std::string> words = {"traintrace"};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  print("\n[Enter] back to the live view\n");
  while (terminal.wait(std::chrono::hours(1)).key == Key::kNone) {
  }
  terminal.resume();
}

class LiveView {
 public:
  LiveView(LiveJob job, const TopOptions& options, int64_t interval_ns, TimeNs blocked_after)
      : job_(std::make_unique<LiveJob>(std::move(job))),
        options_(options),
        interval_(interval_ns),
        blocked_after_(blocked_after),
        inputs_(options.traces) {
    look_.order = order_of(options.sort);
  }

  int run() {
    LiveTerminal terminal;
    look_.utf8 = terminal.utf8();
    refresh();
    auto next = Clock::now() + interval_;
    for (int looks = 1; options_.looks == 0 || looks < options_.looks + 1;) {
      draw(terminal);
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
      const KeyPress press = terminal.wait(std::max(left, std::chrono::milliseconds(0)));
      if (press.key == Key::kEnd || !take(press, terminal)) {
        break;
      }
      if (Clock::now() >= next) {
        refresh();
        ++looks;
        next = std::max(next + interval_, Clock::now() + interval_ / 2);
      }
    }
    return 0;
  }

 private:
  void refresh() {
    constexpr int kLooksForNewTraces = 5;  // listing a folder costs more than reading its traces
    if (++refreshes_ % kLooksForNewTraces == 0 && job_->is_outdated()) {
      if (Result<LiveJob> again = LiveJob::open(inputs_, blocked_after_)) {
        job_ = std::make_unique<LiveJob>(std::move(*again));
      }
    }
    view_ = job_->look(look_.order);
    look_.selected = std::min(look_.selected, view_.rows.size() - 1);
  }

  void draw(LiveTerminal& terminal) {
    Screen screen = stdout_screen();
    screen.columns = terminal.columns();
    look_.lines = terminal.lines();
    terminal.draw(top_lines(view_, *job_, look_, screen));
  }

  const RankView& chosen() const { return view_.ranks[view_.rows[look_.selected].members.front()]; }

  enum class Details : uint8_t { kNone, kFrames, kMemory };

  void show(Details details) {
    constexpr size_t kMostLines = 10;
    shown_ = shown_ == details ? Details::kNone : details;
    look_.details = shown_ == Details::kFrames   ? job_->frames(chosen(), kMostLines)
                    : shown_ == Details::kMemory ? job_->memory(chosen(), kMostLines)
                                                 : std::vector<std::string>();
  }

  void select(size_t row) {
    look_.selected = std::min(row, view_.rows.size() - 1);
    look_.details.clear();
    shown_ = Details::kNone;
  }

  // False: to end.
  bool take(const KeyPress& press, LiveTerminal& terminal) {
    switch (press.key) {
      case Key::kUp:
        select(look_.selected == 0 ? 0 : look_.selected - 1);
        return true;
      case Key::kDown:
        select(look_.selected + 1);
        return true;
      case Key::kEnter:
        show(Details::kFrames);
        return true;
      case Key::kEscape:
        select(look_.selected);
        return true;
      case Key::kCharacter:
        return take(press.character, terminal);
      default:
        return true;
    }
  }

  bool take(char key, LiveTerminal& terminal) {
    constexpr TopOrder kNext[] = {TopOrder::kLag, TopOrder::kMemory, TopOrder::kGrowth,
                                  TopOrder::kRank};
    switch (key) {
      case 'q':
        return false;
      case 'k':
        select(look_.selected == 0 ? 0 : look_.selected - 1);
        return true;
      case 'j':
        select(look_.selected + 1);
        return true;
      case 's':
        look_.order = kNext[static_cast<size_t>(look_.order)];
        fold_ranks(view_, look_.order);
        select(0);
        return true;
      case 'm':
        show(Details::kMemory);
        return true;
      case 'h': {
        std::vector<std::string> command = {"analyze", "--hang-after=" + options_.blocked_after};
        command.insert(command.end(), inputs_.begin(), inputs_.end());
        run_aside(terminal, command);
        return true;
      }
      default:
        return true;
    }
  }

  std::unique_ptr<LiveJob> job_;
  const TopOptions& options_;
  std::chrono::nanoseconds interval_;
  TimeNs blocked_after_;
  std::vector<std::string> inputs_;
  JobView view_;
  TopLook look_;
  Details shown_ = Details::kNone;
  int refreshes_ = 0;
};

// What was seen twice tells more than what was seen once: whether a rank moves.
int look_once(LiveJob& job, const TopOptions& options, int64_t interval_ns) {
  const TopOrder order = order_of(options.sort);
  job.look(order);
  std::this_thread::sleep_for(std::chrono::nanoseconds(interval_ns));
  const JobView view = job.look(order);
  if (options.format == "json") {
    return print(top_json(view, job));
  }
  TopLook look;
  look.lines = 0;
  look.order = order;
  std::string text;
  const Screen screen = stdout_screen();
  for (const std::string& line : top_lines(view, job, look, screen)) {
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (const size_t blocked = view.count(LiveState::kBlocked); blocked != 0) {
    std::string traces;
    for (const std::string& trace : options.traces) {
      traces += " " + shell_word(trace);
    }
    text +=
        fmt::format("{} blocked: traintrace analyze{} says whom they wait for\n",
                    blocked == 1 ? "one rank is" : fmt::format("{} ranks are", blocked), traces);
  }
  return print(text);
}

// Each rank's trace stays open. Many shells allow 1,024 files unless a program asks for more.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int top(TopOptions options) {
  const auto interval = parse_duration(options.interval);
  const auto blocked_after = parse_duration(options.blocked_after);
  constexpr int64_t kShortest = 10'000'000;
  if (!interval || *interval < kShortest) {
    return fail("--interval=" + options.interval + ": write a time of 10ms or more");
  }
  if (!blocked_after || *blocked_after <= 0) {
    return fail("--hang-after=" + options.blocked_after + ": write a time as 5s or 500ms");
  }
  if (!options.once && options.format == "json") {
    return fail("--format=json goes with --once");
  }
  if (!options.once && (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)) {
    return fail("top needs a terminal; for a script or a pipe: traintrace top --once");
  }
  if (options.all) {
    const Result<std::vector<std::string>> folders = recorded_folders();
    if (!folders) {
      return fail(folders.error());
    }
    options.traces.insert(options.traces.end(), folders->begin(), folders->end());
  }
  allow_many_files();
  Result<LiveJob> job = LiveJob::open(options.traces, *blocked_after);
  if (!job) {
    return fail(job.error());
  }
  return options.once ? look_once(*job, options, *interval)
                      : LiveView(std::move(*job), options, *interval, *blocked_after).run();
}

}  // namespace

void declare_top(CLI::App& command, Invocation& invocation) {
  auto options = std::make_shared<TopOptions>();
  add_traces(command, options->traces);
  command.add_flag("--all", options->all, "every process of this machine that is being recorded");
  command.add_flag("--once", options->once, "print one sample and exit");
  command.add_option("--interval", options->interval, "time between two samples")
      ->capture_default_str();
  command
      .add_option("--hang-after", options->blocked_after,
                  "a rank that does nothing new for this long is shown as blocked")
      ->capture_default_str();
  command.add_option("--sort", options->sort, "what comes first")
      ->check(CLI::IsMember({"rank", "lag", "memory", "growth"}))
      ->capture_default_str();
  command.add_option("--looks", options->looks, "end after this many")->group("");
  add_format(command, options->format, {"text", "json"});
  command.callback([options, &invocation] { invocation.status = top(*options); });
}

}  // namespace traintrace
