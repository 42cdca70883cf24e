#include "analyzer/reader/sections/stored_reports.h"

#include <algorithm>

namespace traintrace {

StoredReports::StoredReports(SegmentReader segments, const TraceClock& clock,
                             std::vector<Form> forms, std::vector<Place> places, uint64_t count)
    : segments_(std::move(segments)),
      clock_(clock),
      forms_(std::move(forms)),
      places_(std::move(places)),
      count_(count) {
  segments_.forget();
  std::stable_sort(places_.begin(), places_.end(),
                   [](const Place& a, const Place& b) { return a.first < b.first; });
}

StoredReports StoredReports::moved_by(TimeNs by) const {
  StoredReports moved = *this;
  moved.clock_.move_by(by);
  for (Place& place : moved.places_) {
    TimeNs first = 0;
    place.first = __builtin_add_overflow(place.first, by, &first) ? place.first : first;
  }
  return moved;
}

const StoredReports::Form* StoredReports::form(uint16_t id) const {
  const auto found =
      std::find_if(forms_.begin(), forms_.end(), [id](const Form& form) { return form.id == id; });
  return found == forms_.end() ? nullptr : &*found;
}

ReportCursor::ReportCursor(const StoredReports* reports) : reports_(reports) {
  if (reports_ != nullptr) {
    segments_.emplace(reports_->segments_);
    choose();
  }
}

void ReportCursor::next() {
  if (!advance(*current_)) {
    current_.reset();
  }
  choose();
}

bool ReportCursor::advance(OpenChunk& chunk) const {
  while (const auto head = record_at(chunk.words, chunk.at)) {
    const auto words = std::span(chunk.words).subspan(chunk.at, head->words);
    chunk.at += head->words;
    const StoredReports::Form* const form =
        head->type == format::kMoment ? reports_->form(head->call) : nullptr;
    if (form == nullptr) {
      continue;
    }
    chunk.record.call = form->call;
    chunk.record.stack = head->stack;
    chunk.record.device = head->device;
    chunk.record.enter = chunk.record.leave = reports_->clock_.ns(words[1]);
    chunk.record.value_count = form->values;
    chunk.values.assign(form->values, 0);
    for (size_t i = 0; i < form->places.size() && i + 2 < words.size(); ++i) {
      chunk.values[form->places[i]] = words[i + 2];
    }
    return true;
  }
  return false;
}

void ReportCursor::open(const ChunkPlace& place) {
  OpenChunk chunk;
  const auto read = segments_->read_chunk(place, chunk.words);
  if (!read) {
    return;  // somebody changed the file
  }
  chunk.ordinal = place.ordinal;
  chunk.record.thread = read->head.thread;
  chunk.record.returned = chunk.record.moment = true;
  if (advance(chunk)) {
    others_.push_back(std::move(chunk));
    std::push_heap(others_.begin(), others_.end(), is_later);
  }
}

bool ReportCursor::may_be_next(TimeNs first) const {
  return (!current_ || first <= current_->record.enter) &&
         (others_.empty() || first <= others_.front().record.enter);
}

void ReportCursor::choose() {
  const std::vector<StoredReports::Place>& places = reports_->places_;
  while (next_ < places.size() && may_be_next(places[next_].first)) {
    open(places[next_++].chunk);
  }
  if (others_.empty() || (current_ && !is_later(*current_, others_.front()))) {
    return;
  }
  std::pop_heap(others_.begin(), others_.end(), is_later);
  OpenChunk earliest = std::move(others_.back());
  others_.pop_back();
  if (current_) {
    others_.push_back(std::move(*current_));
    std::push_heap(others_.begin(), others_.end(), is_later);
  }
  current_ = std::move(earliest);
}

TimeNs first_event(const ProcessTrace& trace) {
  const TimeNs called = trace.events.empty() ? 0 : trace.events.front().enter;
  const TimeNs reported = trace.stored_reports ? trace.stored_reports->first() : 0;
  return called == 0 || reported == 0 ? std::max(called, reported) : std::min(called, reported);
}

}  // namespace traintrace
