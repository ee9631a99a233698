import type { ComponentReader } from './component-reader.ts';

export type CoreSort = 'core-func' | 'table' | 'memory' | 'global' | 'tag' | 'core-type' | 'module' | 'core-instance';
export type ComponentSort = 'func' | 'value' | 'type' | 'component' | 'instance';
export type Sort = CoreSort | ComponentSort;

export type Alias =
  | { readonly from: 'export' | 'core-export'; readonly sort: Sort; readonly instance: number; readonly name: string }
  | { readonly from: 'outer'; readonly sort: Sort; readonly count: number; readonly index: number };

const coreSorts: Readonly<Record<number, CoreSort>> = {
  0: 'core-func',
  1: 'table',
  2: 'memory',
  3: 'global',
  4: 'tag',
  16: 'core-type',
  17: 'module',
  18: 'core-instance',
};
const componentSorts: Readonly<Record<number, ComponentSort>> = {
  1: 'func',
  2: 'value',
  3: 'type',
  4: 'component',
  5: 'instance',
};

export function readCoreSort(reader: ComponentReader): CoreSort {
  const byte = reader.byte();
  const sort = coreSorts[byte];
  if (!sort) throw reader.unknown('core sort', byte);
  return sort;
}

export function readSort(reader: ComponentReader): Sort {
  const byte = reader.byte();
  if (byte === 0) return readCoreSort(reader);
  const sort = componentSorts[byte];
  if (!sort) throw reader.unknown('sort', byte);
  return sort;
}

export function readAlias(reader: ComponentReader): Alias {
  const sort = readSort(reader);
  const target = reader.byte();
  if (target === 0) return { from: 'export', sort, instance: reader.u32(), name: reader.name() };
  if (target === 1) return { from: 'core-export', sort, instance: reader.u32(), name: reader.name() };
  if (target === 2) return { from: 'outer', sort, count: reader.u32(), index: reader.u32() };
  throw reader.unknown('alias', target);
}

/** The name of an import or export of a component. */
export function readExternName(reader: ComponentReader): string {
  const form = reader.byte();
  if (form > 1) throw reader.unknown('name form', form);
  return reader.name();
}
