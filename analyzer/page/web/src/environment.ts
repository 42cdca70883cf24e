import { data } from "./data";
import { h } from "./dom";
import { table } from "./table";
import { bytes } from "./units";

// What must be equal on all ranks and is not comes first.
const perRank = /^(env\.(RANK|LOCAL_RANK|GROUP_RANK|ROLE_RANK|SLURM_PROCID|SLURM_LOCALID|OMPI_COMM_WORLD_RANK|PMI_RANK)|host|command-line|rank|operations-in-flight)$/;
const listed = (values: string[]): string => values.slice(0, 8).join(", ") + (values.length > 8 ? ` and ${values.length - 8} more` : "");
// What is asked first, read without opening the table.
function summary(): HTMLElement | null {
  const of = (name: RegExp): string[] => [...new Set(data.environment.filter((fact) => name.test(fact.name)).flatMap((fact) => fact.values.map((one) => one.value)).filter((value) => value !== ""))];
  const nccl = data.environment.filter((fact) => /^env\.(NCCL|TORCH_NCCL)_/.test(fact.name)).map((fact) => `${fact.name.slice(4)}=${fact.values.map((one) => one.value).join(" or ")}`);
  const hosts = data.run.hosts.filter((host) => host !== "");
  const rows: [string, string][] = [[hosts.length === 1 ? "Host" : `${hosts.length} hosts`, listed(hosts)], ["Memory of a GPU", listed(of(/^gpu-\d+-memory$/).map((value) => bytes(Number(value))))], ["CUDA driver", listed(of(/^cuda-driver-version$/))],
    ["NCCL", listed(of(/^nccl-version$/))], ["NCCL settings", listed(nccl)], ["Program", listed(of(/^exe$/))], ["traintrace", listed(of(/^traintrace-version$/))]];
  const known = rows.filter(([, value]) => value !== "");
  return known.length === 0 ? null : h("dl", { class: "inputs" }, ...known.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))]));
}

export function environment(): HTMLElement[] | null {
  if (data.environment.length === 0) return null;
  const differ = data.environment.filter((fact) => fact.count > 1 && !perRank.test(fact.name));
  const wrong = data.environment.filter((fact) => fact.name.startsWith("setting-error."));
  const rows = data.environment.filter((fact) => fact.values.some((one) => one.value !== "")).map((fact) => [fact.name, fact.count === 1 ? fact.values[0]!.value : fact.values.map((one) => `${one.value} (${one.ranks})`).join("; ") + (fact.count > fact.values.length ? ` and ${fact.count - fact.values.length} more` : ""), fact.count]);
  const known = summary();
  return [...(known ? [known] : []), h("p", {}, differ.length === 0 ? "Versions and settings are the same on all ranks." : `${differ.length} ${differ.length === 1 ? "fact differs" : "facts differ"} between ranks:`),
    ...(differ.length > 0 ? [h("ul", {}, ...differ.slice(0, 20).map((fact) => h("li", {}, h("code", {}, fact.name), ": ", fact.values.map((one) => `${one.value} on ${one.ranks}`).join("; "))))] : []),
    ...wrong.map((fact) => h("p", {}, "Not understood: ", h("code", {}, fact.name.replace("setting-error.", "")), " ", fact.values[0]!.value)),
    ...data.losses.slice(0, 30).map((loss) => h("p", { class: "quiet" }, loss.text)),
    table("Facts", ["fact", "value (ranks)", "different values"], rows)];
}
