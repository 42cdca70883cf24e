// The text of cuGraphDebugDotPrint: one cluster per graph, child graphs after their parents.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "cuda/copy.h"
#include "cuda/graph.h"
#include "cuda/graph_memory.h"
#include "cuda/launch.h"
#include "cuda/stream_work.h"

namespace simgpu {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

// Characters that mean something inside a record label.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '<' || c == '>' || c == '{' || c == '}' || c == '|' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

const char* type_name(CUgraphNodeType type) {
  static const char* const names[] = {
      "KERNEL",       "MEMCPY",     "MEMSET",   "HOST",      "GRAPH",    "EMPTY",  "EVENT_WAIT",
      "EVENT_RECORD", "EXT_SIGNAL", "EXT_WAIT", "MEM_ALLOC", "MEM_FREE", "MEM_OP", "CONDITIONAL"};
  return names[type];
}

const char* memory_name(CUmemorytype type) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      return "HOST";
    case CU_MEMORYTYPE_DEVICE:
      return "DEVICE";
    case CU_MEMORYTYPE_ARRAY:
      return "ARRAY";
    default:
      return "UNIFIED";
  }
}

std::string kernel_label(const Work& work, bool details) {
  CUDA_KERNEL_NODE_PARAMS p;
  if (!kernel_params_of(work, p)) {
    return "";
  }
  const std::string shape = format("<<<%u,%u,%u>>>", p.gridDimX * p.gridDimY * p.gridDimZ,
                                   p.blockDimX * p.blockDimY * p.blockDimZ, p.sharedMemBytes);
  const Kernel* kernel = p.func ? kernel_of(p.func) : kernel_of(p.kern);
  std::string label = escaped((kernel ? kernel->name : "") + shape);
  if (details) {
    label +=
        format("\\ngridDim=(%u,%u,%u)\\nblockDim=(%u,%u,%u)\\nsharedMemBytes=%u", p.gridDimX,
               p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes);
  }
  return label;
}

std::string copy_label(const Work& work, bool details) {
  CUDA_MEMCPY3D p;
  if (!copy_params_of(work, p)) {
    return "";
  }
  std::string label =
      format("(%s -\\> %s)", memory_name(p.srcMemoryType), memory_name(p.dstMemoryType));
  if (details) {
    label += format("\\nextent=(%zu,%zu,%zu)", p.WidthInBytes, p.Height, p.Depth);
  }
  return label;
}

std::string set_label(const Work& work, bool details) {
  CUDA_MEMSET_NODE_PARAMS p;
  if (!details || !set_params_of(work, p)) {
    return "";
  }
  return format("dptr=0x%llx value=%u elementSize=%u width=%zu height=%zu", p.dst, p.value,
                p.elementSize, p.width, p.height);
}

std::string host_label(const Work& work, bool details) {
  CUDA_HOST_NODE_PARAMS p;
  if (!details || !host_params_of(work, p)) {
    return "";
  }
  return format("fn=%p userData=%p", reinterpret_cast<void*>(p.fn), p.userData);
}

std::string memory_label(const Work& work, bool details) {
  CUDA_MEM_ALLOC_NODE_PARAMS p;
  CUdeviceptr address = 0;
  if (details && alloc_params_of(work, p)) {
    return format("dptr=0x%llx bytesize=%zu", p.dptr, p.bytesize);
  }
  return details && free_address_of(work, address) ? format("dptr=0x%llx", address) : "";
}

// What a node is asked to tell beside its type.
std::string detail(const CUgraphNode_st& node, unsigned flags) {
  const auto asked = [&](unsigned flag) {
    return (flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
  };
  const NodeContent& content = node.content;
  if (content.event_handle && asked(CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS)) {
    return format("event=%p", static_cast<void*>(content.event_handle));
  }
  if (!content.work) {
    return "";
  }
  switch (content.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_label(*content.work, asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS));
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_label(*content.work, asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS));
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return set_label(*content.work, asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS));
    case CU_GRAPH_NODE_TYPE_HOST:
      return host_label(*content.work, asked(CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS));
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return memory_label(*content.work, asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS));
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return memory_label(*content.work, asked(CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS));
    default:
      return "";
  }
}

struct Writer {
  unsigned flags = 0;
  int next_graph = 0;
  std::string text;

  void write(const CUgraph_st& graph) {
    const int number = next_graph++;
    text += format("subgraph cluster_%d {\nlabel=\"graph_%d\" graph[style=\"dashed\"];\n", number,
                   number);
    std::map<CUgraphNode, size_t> index;
    std::vector<CUgraph> children;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      index[graph.nodes[i]] = i;
      write_node(*graph.nodes[i], number, i);
      if (graph.nodes[i]->content.child) {
        children.push_back(graph.nodes[i]->content.child);
      }
    }
    for (CUgraphNode node : graph.nodes) {
      for (const Edge& edge : node->dependencies) {
        text += format("\"graph_%d_node_%zu\" -> \"graph_%d_node_%zu\"%s;\n", number,
                       index[edge.node], number, index[node],
                       is_default(edge.data) ? "" : "[style=\"dotted\" label=\"programmatic\"]");
      }
    }
    text += "}\n";
    for (CUgraph child : children) {
      write(*child);
    }
  }

  void write_node(const CUgraphNode_st& node, int graph, size_t index) {
    const bool handles =
        flags & (CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
    text += format("\"graph_%d_node_%zu\"[style=\"%s\" shape=\"%s\" label=\"%zu\\n%s\\n", graph,
                   index, node.content.type == CU_GRAPH_NODE_TYPE_KERNEL ? "bold" : "solid",
                   node.content.type == CU_GRAPH_NODE_TYPE_KERNEL ? "octagon" : "rectangle", index,
                   type_name(node.content.type));
    text += detail(node, flags);
    if (handles) {
      text += format("\\nnode handle: %p", static_cast<const void*>(&node));
    }
    text += "\"];\n";
  }
};

}  // namespace

std::string dot_text(const CUgraph_st& graph, unsigned flags) {
  Writer writer;
  writer.flags = flags;
  writer.write(graph);
  return "digraph dot {\n" + writer.text + "}\n";
}

}  // namespace simgpu
