import { JCO_VERSION } from './versions.ts';

/** As jco 1.35 writes it, but for the indentation. */
const DEBUG_LOG = `const _debugLog = (...args) => {
if (!globalThis?.process?.env?.JCO_DEBUG) { return; }
console.debug(...args);
};`;
const SILENT = 'const _debugLog = () => {};';

const ENTRY = 'export function instantiate(getCoreModule, imports, instantiateCore = WebAssembly.instantiate) {';

/** Code that would load other code. No name of a guest can look like it: their alphabet has no quote and no bracket. */
const loads = [
  /^\s*import(?:\s+\w|\s*[{*'"])/m,
  /\bimport\s*\(/,
  /^\s*export\s+[\w{*].*\bfrom\s*['"]/m,
  /\brequire\s*\(/,
];

/**
 * What jco generated, made ready to run: without its debug log, which looks into the environment at every step and is
 * half the cost of a call, and proved to be one self-contained function. An output of another form is an error of ours,
 * to be found by the tests of an upgrade.
 */
export function refineGlue(text: string): string {
  const silenced = silence(text);
  if (!silenced.includes(ENTRY))
    throw new Error(`jco ${JCO_VERSION} generated code without the expected entry function`);
  const found = loads.find((pattern) => pattern.test(silenced));
  if (found) throw new Error(`jco ${JCO_VERSION} generated code that loads other code (${found})`);
  return silenced;
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
const debugLog = new RegExp(DEBUG_LOG.split('\n').map(escaped).join('\\n\\s*'), 'g');
const LOOKS_AT_PROCESS = /\bprocess\?\./;

function silence(text: string): string {
  const silenced = text.replace(debugLog, SILENT);
  if (silenced === text || LOOKS_AT_PROCESS.test(silenced)) {
    throw new Error(`jco ${JCO_VERSION} generated an unexpected debug log function`);
  }
  return silenced;
}
