// Judge an attention in JavaScript by the golden vectors: node judge_node.mjs [YOUR_MODULE.mjs]
// YOUR_MODULE.mjs exports attend(query, keys, values, addition, scale, width), one row of attention as below. Exit status 1 if a vector is missed.
import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));

// A number of a file: an exact decimal, a word, or a hexadecimal float such as -0x1.8p+1.
export function number(written) {
  if (typeof written !== "string") return Number(written);
  if (written === "nan") return NaN;
  if (written.endsWith("inf")) return written.startsWith("-") ? -Infinity : Infinity;
  const [, sign, whole, digits, exponent] = /^(-?)0x([01])(?:\.([0-9a-f]+))?p([+-]\d+)$/.exec(written);
  let value = Number(whole);
  [...(digits ?? "")].forEach((digit, place) => (value += parseInt(digit, 16) * 2 ** (-4 * (place + 1))));
  // In two steps, since 2 ** -1074 times a value below 2 is exact only from the side of the larger power.
  const power = Number(exponent), half = Math.trunc(power / 2);
  return (sign ? -1 : 1) * value * 2 ** half * 2 ** (power - half);
}

export const size = (shape) => shape.reduce((product, axis) => product * axis, 1);

// The element of `part` at `place`, a full index of the broadcast shape: missing axes and axes of size 1 repeat.
export function at(part, place) {
  const skipped = place.length - part.shape.length;
  let offset = 0;
  part.shape.forEach((axis, position) => (offset = offset * axis + (axis === 1 ? 0 : place[position + skipped])));
  return part.values[offset];
}

// Every index of a shape, the last axis fastest.
export function* places(shape) {
  for (let count = 0; count < size(shape); count++) {
    let rest = count;
    const place = [];
    for (const axis of [...shape].reverse()) {
      place.unshift(rest % axis);
      rest = Math.floor(rest / axis);
    }
    yield place;
  }
}

// What the mask adds to the score of key j for the query at `place` (the last axis of `place` is the query).
export function added(mask, place, j) {
  if (mask === null) return 0;
  if (mask.form === "lengths") return j < number(mask.values[place[0]]) ? 0 : -Infinity;
  const value = at(mask, [...place, j]);
  if (mask.form === "additive") return number(value);
  return value === true || (typeof value !== "boolean" && number(value) !== 0) ? 0 : -Infinity;
}

// One row of attention: query (D), keys (S, D), values (S, E), added (S). Returns the output (E) and the weights (S).
// A row that may attend to nothing is uniform, and without keys the output is 0.
export function attend(query, keys, values, addition, scale, width) {
  let scores = keys.map((key, j) => scale * key.reduce((sum, k, d) => sum + k * query[d], 0) + addition[j]);
  if (scores.every((score) => score === -Infinity)) scores = scores.map(() => 0);
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const weights = powers.map((power) => power / total);
  const output = Array.from({ length: width }, (_, c) => weights.reduce((sum, weight, j) => sum + weight * values[j][c], 0));
  return { output, weights };
}

// Recompute one vector of the function `attention`; return its results in the order of the file.
export function recompute(vector, row) {
  const { query, key, value } = Object.fromEntries(
    Object.entries(vector.inputs).map(([name, part]) => [name, { shape: part.shape, values: part.values.map(number) }]),
  );
  const D = query.shape.at(-1), S = key.shape.at(-2), E = value.shape.at(-1);
  const shape = vector.expected.output.shape.slice(0, -1);
  const results = { output: [], weights: [] };
  for (const place of places(shape)) {
    const lead = place.slice(0, -1);
    const line = (part, position, width) => Array.from({ length: width }, (_, c) => at(part, [...lead, position, c]));
    const keys = Array.from({ length: S }, (_, j) => line(key, j, D));
    const values = Array.from({ length: S }, (_, j) => line(value, j, E));
    const addition = keys.map((_, j) => added(vector.mask, place, j));
    const found = row(line(query, place.at(-1), D), keys, values, addition, 1 / Math.sqrt(D), E);
    results.output.push(...found.output);
    results.weights.push(...found.weights);
  }
  return results;
}

// The largest error divided by its allowance; a number where NaN is expected, or NaN for a number, is infinitely wrong.
export function worst(found, expected, allowed) {
  if (found.length !== expected.values.length) return Infinity;
  return found.reduce((ratio, value, place) => {
    const exact = number(expected.values[place]);
    if (Number.isNaN(exact) || Number.isNaN(value)) return Number.isNaN(exact) && Number.isNaN(value) ? ratio : Infinity;
    const error = Math.abs(value - exact);
    return error === 0 ? ratio : Math.max(ratio, error / allowed[place]);
  }, 0);
}

async function main(path) {
  const row = path ? (await import(pathToFileURL(resolve(path)))).attend : attend;
  const index = JSON.parse(readFileSync(join(HERE, "index.json"), "utf8"));
  let missed = 0, judged = 0;
  for (const entry of index.vectors) {
    if (entry.reference !== "attention" || entry.agreement !== "must agree") continue;
    const bytes = readFileSync(join(HERE, entry.file));
    if (createHash("sha256").update(bytes).digest("hex") !== entry.sha256) throw new Error(`${entry.file} was changed`);
    const vector = JSON.parse(bytes);
    const results = recompute(vector, row);
    const ratios = Object.entries(vector.expected).map(([name, expected]) =>
      worst(results[name], expected, expected.allowed["fp64 eager"]));
    const ratio = Math.max(...ratios);
    console.log(entry.id, ratio <= 1 ? "ok" : "WRONG", ratio.toPrecision(3));
    judged += 1;
    missed += ratio <= 1 ? 0 : 1;
  }
  console.log(`${judged} vectors judged, ${missed} missed`);
  process.exitCode = missed ? 1 : 0;
}

// Not awaited here, so that YOUR_MODULE may import from this file.
if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) main(process.argv[2]);
