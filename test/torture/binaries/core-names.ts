import { type Framed, readLeb, sectionsOf } from './framing.ts';

const section = { import: 2, export: 7 } as const;
const kind = { function: 0, table: 1, memory: 2, global: 3 } as const;
const HAS_MAX = 1;
const REFERENCES = [0x63, 0x64];

/**
 * The names of what the core modules of an admitted component import and export, wherever they are nested. Read by
 * other code than the gate's: it is what the gate is held to.
 */
export function coreNames(component: Uint8Array): string[] {
  return sectionsOf(component).flatMap(({ id, body }) => {
    if (id === 4) return coreNames(body);
    return id === 1 ? sectionsOf(body).flatMap(namesOf) : [];
  });
}

function namesOf({ id, body }: Framed): string[] {
  if (id !== section.import && id !== section.export) return [];
  let at = 0;
  const number = () => {
    const { value, end } = readLeb(body, at);
    at = end;
    return value;
  };
  const name = () => {
    const length = number();
    at += length;
    return body.toString('latin1', at - length, at);
  };
  const valueType = () => {
    if (REFERENCES.includes(body[at++] ?? 0)) number();
  };
  const limits = () => {
    const flags = number();
    number();
    if (flags & HAS_MAX) number();
  };
  const names: string[] = [];
  for (let left = number(); left > 0; left--) {
    names.push(name());
    if (id === section.import) names.push(name());
    const what = body[at++];
    if (id === section.export || what === kind.function) number();
    else if (what === kind.memory) limits();
    else if (what === kind.table) {
      valueType();
      limits();
    } else if (what === kind.global) {
      valueType();
      at++;
    } else if (what === 4) at += 2;
    else throw new Error(`an import of an unknown kind ${what}`);
  }
  return names;
}
