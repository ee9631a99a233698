import { processEnvironment } from '../config/process-environment.ts';

const codes = { dim: 2, bold: 1, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Colour = keyof typeof codes;
export type Paint = (colour: Colour, text: string) => string;

const plain: Paint = (_, text) => text;
const painted: Paint = (colour, text) => (text === '' ? '' : `\u001b[${codes[colour]}m${text}\u001b[0m`);

export const paintFor = (colours: boolean): Paint => (colours ? painted : plain);

/** Whether stdout is a terminal that shows colours. */
export const wantsColours = (): boolean =>
  process.stdout.isTTY === true && !processEnvironment.NO_COLOR && processEnvironment.TERM !== 'dumb';
