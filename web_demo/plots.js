// A line of figures on a canvas: the newest on the right, the last one marked. Colours are the page's.

const ROOM = 1.15; // above the highest figure

/** `least` is what the scale reaches at least, so that noise does not look like a mountain. */
export function plot(canvas, figures, least) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const style = getComputedStyle(canvas);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.fillStyle = style.getPropertyValue("border-bottom-color");
  pen.fillRect(0, height - 1, width, 1);
  if (!figures.length) return;
  const top = ROOM * Math.max(least, ...figures);
  const x = (i) => width - 5 - (figures.length - 1 - i) * Math.min(8, (width - 8) / Math.max(1, figures.length - 1));
  const y = (figure) => height - 2 - (height - 8) * (figure / top);
  const line = () => {
    pen.beginPath();
    figures.forEach((figure, i) => (i ? pen.lineTo(x(i), y(figure)) : pen.moveTo(x(i), y(figure))));
  };
  pen.strokeStyle = pen.fillStyle = style.color;
  pen.lineWidth = 1.75;
  pen.lineJoin = "round";
  line();
  pen.lineTo(x(figures.length - 1), height - 1);
  pen.lineTo(x(0), height - 1);
  pen.globalAlpha = 0.1;
  pen.fill();
  pen.globalAlpha = 1;
  line();
  pen.stroke();
  pen.beginPath();
  pen.arc(x(figures.length - 1), y(figures.at(-1)), 3, 0, 2 * Math.PI);
  pen.fill();
}
