/** Figures that are measured together: hostcalls by time, whole calls by processor time. */
export const figureGroups = ['hostcalls', 'processor'] as const;
export type FigureGroup = (typeof figureGroups)[number];

export const GOVERNED_CALL = 'governed call over stdio';
export const TURN = 'turn of the tool loop';

export const groupOf = (figure: string): FigureGroup =>
  figure === GOVERNED_CALL || figure === TURN ? 'processor' : 'hostcalls';
