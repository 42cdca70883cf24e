// Expands rows of calls.def into wrappers.  A source includes it, defines which library's rows it
// wants and how their kinds of rows are typed, and includes calls.def; see wrappers_nccl.cc.
#pragma once

#include "interpose/calls/traced.h"

// clang-format off
#define IN(i, name) In<i, format::Field::name>
#define IN3(i, name) In3<i, format::Field::name>
#define OUT(i, name) Out<i, format::Field::name>
#define MEMBER(i, member, name) Member<i, format::Field::name, [](const auto& of) { return of.member; }>
#define MEMBER3(i, member, name) \
  Member<i, format::Field::name, [](const auto& of) { return grid(of.member##X, of.member##Y, of.member##Z); }>
#define OUT_MEMBER(i, member, name) OutMember<i, format::Field::name, [](const auto& of) { return of.member; }>
#define PART(i, member, name) Part<i, format::Field::name, [](const auto& of) { return of.member; }>
#define SUM(i, n, name) Sum<i, n, format::Field::name>
#define EXTENTS(i, n, type, name) Extents<i, n, type, format::Field::name>
#define COMM(i) Comm<i>
#define IS(value, name) Is<value, format::Field::name>
#define LAYOUTS(a, b, d) Layouts<a, b, d>

// Not through a function: the table must be there before any constructor runs, ours included.
#define TT_WRAPPER(library, kind, exported, typed, per_thread, ...)                                   \
  reinterpret_cast<const void*>(                                                                      \
      &Wrapper<format::Library::library, format::CallId::exported, format::Kind::kind, per_thread,    \
               decltype(&typed) __VA_OPT__(,) __VA_ARGS__>::template call<symbol_of(format::CallId::exported)>),
#define TT_SKIP(...) nullptr,
#define TT_SKIP_2(...) nullptr, nullptr,

#define TT_CALL(library, kind, function, ...) \
  TT_ROW_##library(TT_WRAPPER, TT_SKIP, (library, kind, function, function, false __VA_OPT__(,) __VA_ARGS__))
#define TT_CALL_AS(library, kind, exported, typed, ...) \
  TT_ROW_##library(TT_WRAPPER, TT_SKIP, (library, kind, exported, typed, false __VA_OPT__(,) __VA_ARGS__))
#define TT_CALL_PTSZ(library, kind, function, ...) \
  TT_CALL(library, kind, function __VA_OPT__(,) __VA_ARGS__) \
  TT_ROW_##library(TT_WRAPPER, TT_SKIP, (library, kind, function##_ptsz, function, true __VA_OPT__(,) __VA_ARGS__))
#define TT_CALL_PTDS(library, kind, function, ...) \
  TT_CALL(library, kind, function __VA_OPT__(,) __VA_ARGS__) \
  TT_ROW_##library(TT_WRAPPER, TT_SKIP, (library, kind, function##_ptds, function, true __VA_OPT__(,) __VA_ARGS__))
#define TT_TAKE(wrapper, skip, arguments) wrapper arguments
#define TT_LEAVE(wrapper, skip, arguments) skip arguments
// clang-format on

namespace traintrace {

template <format::Library kLibrary, format::CallId kCall, format::Kind kKind, bool kPerThread,
          class Function, class... Fields>
using Wrapper = Traced<kLibrary, Row<kCall, kKind, kPerThread, Fields...>, Function, Fields...>;

}  // namespace traintrace
